"""What is changed in the copy of Redis's test-suite, and why: file, old, new, reason.

Many tests are about connections, users, transactions or statistics, and take a list or a set for their
example. Those do the same here with a string, and what they look at stays what Redis's authors wrote."""

STRINGS = "about something else: the example is a string where it was another type"

FITTINGS = (
    (
        "support/server.tcl",
        "Ready to accept",
        "ready to serve",
        "the line of the log by which it sees that the server is up",
    ),
    (
        "support/test.tcl",
        "            if {$::stop_on_failure} {\n",
        "            catch {reconnect}\n            if {$::stop_on_failure} {\n",
        "a test that failed leaves its connection in a state that has the next ones fail",
    ),
    (
        "support/util.tcl",
        "[socket -server 127.0.0.1 $port]",
        "[socket -server 127.0.0.1 -myaddr 127.0.0.1 $port]",
        "which ports are free: it asked on all addresses, and one that was free was enough",
    ),
    (
        "unit/auth.tcl",
        'start_server {tags {"masterauth"}} {',
        'start_server {tags {"masterauth needs:repl"}} {',
        "a tag that is missing",
    ),
    (
        "unit/pause.tcl",
        "    start_server {tags {needs:repl external:skip}} {\n",
        "    if {0} {\n",
        "replication, of which parts stand outside of any test",
    ),
    (
        "unit/keyspace.tcl",
        "    test {MOVE basic usage} {\n        r set",
        "    test {MOVE basic usage} {\n        r flushdb\n        r set",
        "the flush stands at the end of a test of streams",
    ),
    (
        "unit/acl-v2.tcl",
        "general keyspace commands require some type of permission to execute} {\n",
        "general keyspace commands require some type of permission to execute} {\n"
        + "        r ACL setuser command-test +@all %R~read* %W~write* %RW~rw*\n",
        "the user is made by a test that looks at sorted sets as well",
    ),
    (
        "unit/expire.tcl",
        "        r lpush x foo\n        r expire x 1000\n        r lpush x bar\n        r lrange x 0 -1\n"
        + "    } {bar foo}",
        "        r set x foo\n        r expire x 1000\n        r append x bar\n        r get x\n"
        + "    } {foobar}",
        STRINGS,
    ),
    (
        "unit/protocol.tcl",
        'test "raw protocol response" {\n        r srandmember nonexisting_key\n',
        'test "raw protocol response" {\n        r watch raw\n        r set raw 1\n        r multi\n'
        + "        r exec\n",
        "an array that is null is what EXEC answers, too, when a watched key changed",
    ),
    (
        "unit/protocol.tcl",
        "        r srandmember nonexisting_key\n        r read\n",
        "        foreach command {{watch raw} {set raw 2} multi} {r {*}$command; r read}\n"
        + "        r exec\n        r read\n",
        "likewise",
    ),
    (
        "unit/protocol.tcl",
        "        r sadd ss a\n        assert_equal [r read] {:1}\n        r srandmember ss 100\n",
        "        r setnx ss a\n        assert_equal [r read] {:1}\n        r mget ss\n",
        STRINGS,
    ),
    (
        "unit/multi.tcl",
        "        r del mylist\n        r rpush mylist a\n        r rpush mylist b\n"
        + "        r rpush mylist c\n        r multi\n        set v1 [r lrange mylist 0 -1]\n",
        "        r mset a{t} a b{t} b c{t} c\n        r multi\n        set v1 [r mget a{t} b{t} c{t}]\n",
        STRINGS,
    ),
    (
        "unit/multi.tcl",
        "        r del mylist\n        r rpush mylist a\n        r rpush mylist b\n"
        + "        r rpush mylist c\n        r multi\n        set v1 [r del mylist]\n"
        + "        set v2 [r discard]\n        set v3 [r lrange mylist 0 -1]\n",
        "        r mset a{t} a b{t} b c{t} c\n        r multi\n        set v1 [r del a{t} b{t} c{t}]\n"
        + "        set v2 [r discard]\n        set v3 [r mget a{t} b{t} c{t}]\n",
        STRINGS,
    ),
    (
        "unit/multi.tcl",
        "        r sadd myset a\n        r multi\n        r spop myset\n",
        "        r set myset a\n        r multi\n        r getdel myset\n",
        STRINGS,
    ),
    (
        "unit/multi.tcl",
        "        catch {r lpush mylist{t} myvalue}\n",
        "        catch {r append mylist{t} myvalue}\n",
        STRINGS,
    ),
    *(
        (
            "unit/multi.tcl",
            f"        {client} config set maxmemory 1\n",
            "        set filler [redis_client]\n"
            + "        $filler config set maxmemory-policy noeviction\n"
            + "        for {set i 0} {![catch {$filler set fill:$i [string repeat x 1000000]}]} {incr i} {}\n"
            + f"        {client} config set maxmemory-policy noeviction\n",
            "a store of one byte there is not: it is filled until it refuses",
        )
        for client in ("$r2", "$rd")
    ),
    *(
        (
            "unit/multi.tcl",
            f"        {client} config set maxmemory 0\n",
            "        $filler flushdb\n        $filler close\n"
            + f"        {client} config set maxmemory-policy prefix\n",
            "likewise",
        )
        for client in ("$r2", "$rd")
    ),
    (
        "unit/pubsub.tcl",
        "        r config set notify-keyspace-events KEl\n        r del mylist\n"
        + "        set rd1 [redis_deferring_client]\n        assert_equal {1} [psubscribe $rd1 *]\n"
        + "        r set foo bar\n        r lpush mylist a\n"
        + "        # No notification for set, because only list commands are enabled.\n",
        "        r config set notify-keyspace-events KEg\n        r del mylist\n"
        + "        set rd1 [redis_deferring_client]\n        assert_equal {1} [psubscribe $rd1 *]\n"
        + "        r set mylist bar\n        r expire mylist 100\n",
        STRINGS,
    ),
    ("unit/pubsub.tcl", "__:mylist lpush", "__:mylist expire", STRINGS),
    (
        "unit/pubsub.tcl",
        '__:lpush mylist" [$rd1 read]\n        $rd1 close',
        '__:expire mylist" [$rd1 read]\n        $rd1 close',
        STRINGS,
    ),
    (
        "unit/pubsub.tcl",
        "        r config set maxmemory 1\n",
        "        for {set i 0} {$i < 1200} {incr i} {r set fill:$i [string repeat x 1000000]}\n",
        "a store of one byte there is not: it is filled until the oldest key goes",
    ),
    ("unit/pubsub.tcl", "        r config set maxmemory 0\n", "        r flushdb\n", "likewise"),
    (
        "unit/pause.tcl",
        "        r PFADD pause-hll test\n        r client PAUSE 100000 WRITE\n",
        "        r client PAUSE 100000 WRITE\n",
        "HyperLogLogs",
    ),
    (
        "unit/pause.tcl",
        "        $rd PFCOUNT pause-hll\n",
        "        $rd spublish foo bar\n",
        "likewise; SPUBLISH waits as PUBLISH does",
    ),
    (
        "unit/pause.tcl",
        '        assert_match "1" [$rd read]\n        assert_match "0" [$rd2 read]\n',
        '        assert_match "0" [$rd read]\n        assert_match "0" [$rd2 read]\n',
        "likewise",
    ),
    (
        "unit/acl.tcl",
        "        r ACL setuser newuser -@all +@set +acl\n        r SADD myset a b c;",
        "        r ACL setuser newuser -@all +@bitmap +acl\n        r SETBIT mybits 1 1;",
        STRINGS,
    ),
    (
        "unit/acl.tcl",
        "        r SADD myset a b c; # Again",
        "        r SETBIT mybits 1 1; # Again",
        STRINGS,
    ),
    (
        "unit/acl.tcl",
        "+acl +@stream\n        r XADD key * field value\n        r XINFO STREAM key\n",
        "+acl +@keyspace\n        r EXISTS key\n        r OBJECT ENCODING key\n",
        STRINGS,
    ),
    (
        "unit/acl.tcl",
        '[r acl cat scripting] "function|list"',
        '[r acl cat connection] "client|list"',
        "functions",
    ),
    ("unit/acl.tcl", '*script|help*" {r SCRIPT HELP}', '*slowlog|help*" {r SLOWLOG HELP}', "scripts"),
    ("unit/acl.tcl", "object] {script|help}", "object] {slowlog|help}", "scripts"),
    ("assets/user.acl", "+@set", "+@bitmap", STRINGS),
    ("unit/acl.tcl", '"3" [r sadd set 1 2 3]', '"0" [r setbit set 1 1]', STRINGS),
    (
        "unit/acl-v2.tcl",
        "$r2 LPUSH ",
        "$r2 APPEND ",
        "this, too, is a command that only writes",
    ),
    (
        "unit/introspection-2.tcl",
        "        r GEOADD foo 0 0 bar\n        assert_match {*calls=1,*} [cmdstat geoadd]\n"
        + "        assert_match {} [cmdstat zadd]\n",
        "        r GETSET foo bar\n        assert_match {*calls=1,*} [cmdstat getset]\n"
        + "        assert_match {} [cmdstat set]\n",
        STRINGS,
    ),
    ("unit/introspection-2.tcl", "r GEOADD foo2{t} 0 0 bar", "r GETSET foo2{t} bar", STRINGS),
    (
        "unit/introspection-2.tcl",
        "[cmdstat expire]\n        assert_match {*calls=1,*} [cmdstat geoadd]",
        "[cmdstat expire]\n        assert_match {*calls=1,*} [cmdstat getset]",
        STRINGS,
    ),
    (
        "unit/introspection-2.tcl",
        "        assert_equal {{k1 {RW access delete}} {k2 {RW insert}}} [r command getkeysandflags"
        + " LMOVE k1 k2 left right]\n        assert_equal {{k1 {RO access}} {k2 {OW update}}} [r"
        + " command getkeysandflags sort k1 store k2]\n",
        "        assert_equal {{k1 {RW access delete}} {k2 {OW update}}} [r command getkeysandflags"
        + " rename k1 k2]\n        assert_equal {{k1 {RO access}} {k2 {OW update}}} [r command"
        + " getkeysandflags copy k1 k2]\n",
        STRINGS,
    ),
    (
        "unit/introspection-2.tcl",
        "filterby aclcat scripting]\n        assert_not_equal [lsearch $commands \"eval\"] -1\n"
        + '        assert_not_equal [lsearch $commands "script|kill"] -1\n',
        "filterby aclcat connection]\n        assert_not_equal [lsearch $commands \"auth\"] -1\n"
        + '        assert_not_equal [lsearch $commands "client|kill"] -1\n',
        "subcommands of scripts",
    ),
    ("unit/introspection-2.tcl", "filterby pattern cl*help]", "filterby pattern co*help]", "CLUSTER HELP"),
    ("unit/introspection-2.tcl", '"client|help"', '"config|help"', "likewise"),
    ("unit/introspection-2.tcl", '"cluster|help"', '"command|help"', "likewise"),
    (
        "unit/latency-monitor.tcl",
        "        r hset f k v\n        r hgetall f\n        set histo [dict create {*}[r latency"
        + " histogram set hset]]\n",
        "        r setex f 100 v\n        r strlen f\n        set histo [dict create {*}[r latency"
        + " histogram set setex]]\n",
        STRINGS,
    ),
    ("unit/latency-monitor.tcl", "[dict get $histo hset]", "[dict get $histo setex]", STRINGS),
    ("unit/latency-monitor.tcl", "histogram hgetall get zadd]", "histogram strlen get append]", STRINGS),
    ("unit/latency-monitor.tcl", "[dict get $histo hgetall]", "[dict get $histo strlen]", STRINGS),
    (
        "unit/slowlog.tcl",
        'config set masterauth ""',
        'config set requirepass ""',
        "the other password of the options",
    ),
    ("unit/slowlog.tcl", "{config set masterauth", "{config set requirepass", "likewise"),
    (
        "unit/slowlog.tcl",
        "        r sadd set a b c d e\n        r slowlog reset\n",
        "        r set set a\n        r slowlog reset\n",
        STRINGS,
    ),
    ("unit/slowlog.tcl", "spop set 10", "getdel set", STRINGS),
    (
        "unit/slowlog.tcl",
        "geoadd cool-cities -122.33207 47.60621 Seattle",
        "setex cool-cities 1000 Seattle",
        STRINGS,
    ),
    (
        "unit/slowlog.tcl",
        """        $rd blpop l 0
        wait_for_blocked_clients_count 1 50 100
        r multi
        r lpush l foo
        r slowlog reset
        r exec
        $rd read
        $rd close
        assert_equal {blpop l 0} [lindex [lindex [r slowlog get] 0] 3]
""",
        "        $rd close\n",
        "commands that block",
    ),
    ("unit/slowlog.tcl", "sadd set 3", "del set 3", STRINGS),
    ("unit/slowlog.tcl", "sadd set foo", "set foo", STRINGS),
    ("unit/slowlog.tcl", "        r sadd set a b c\n", "        r append set a\n", STRINGS),
    ("unit/slowlog.tcl", "        r lpush list a\n", "        r setnx list a\n", STRINGS),
    (
        "unit/other.tcl",
        "        r client tracking on\n\n        assert_equal [r reset]",
        "        assert_equal [r reset]",
        "CLIENT TRACKING ON is refused",
    ),
    (
        "unit/introspection.tcl",
        "{maxmemory 10000001 repl-backlog-size 10000002 save {3000 5}}",
        "{maxmemory 200000001 slowlog-max-len 1002 timeout 3000}",
        "options of replication and of saving; less memory than this server takes",
    ),
    (
        "unit/introspection.tcl",
        "maxmemory 10000001 maxmemory 10000002}",
        "maxmemory 200000001 maxmemory 200000002}",
        "less memory than this server takes",
    ),
    (
        "unit/introspection.tcl",
        "[r config set maxmemory 10000002]",
        "[r config set maxmemory 200000002]",
        "less memory than this server takes",
    ),
    (
        "unit/introspection.tcl",
        "argument 'maxmemory-clients') - percentage argument must be less or equal to 100\" {\n"
        + "            r config set maxmemory 10000001 maxmemory-clients 200%"
        + " client-query-buffer-limit invalid\n",
        "argument 'maxclients') - *\" {\n"
        + "            r config set maxmemory 200000001 maxclients 200% timeout invalid\n",
        "an option that is not here, and one that is fixed at the start",
    ),
    (
        "unit/introspection.tcl",
        "[lindex [r config get maxmemory] 1] 10000002",
        "[lindex [r config get maxmemory] 1] 200000002",
        "less memory than this server takes",
    ),
    (
        "unit/introspection.tcl",
        "[lindex [r config get maxmemory-clients] 1]",
        "[lindex [r config get maxclients] 1]",
        "an option that is not here",
    ),
    (
        "unit/introspection.tcl",
        "assert {[dict exists $res slaveof] && [dict exists $res replicaof]}",
        "",
        "options of replication",
    ),
    (
        "unit/introspection.tcl",
        "[dict exists $res maxmemory-samples] && [dict exists $res maxmemory-clients]",
        "[dict exists $res maxmemory-policy] && [dict exists $res maxmemory-reserve]",
        "options that are not here",
    ),
    ("unit/introspection.tcl", "config set daemonize yes", "config set port 1", "an option that is not here"),
)
