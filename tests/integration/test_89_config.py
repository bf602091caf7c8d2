"""CONFIG REWRITE: the file says what is the case, in the words of whoever wrote it, and is never half."""

import os

import pytest

CONFIG = """# my own file

maxclients 500
  timeout 3
# the end
"""


@pytest.mark.reactors
def test_what_was_set_is_there_after_a_new_start(start):
    server = start(reactors=2, config=CONFIG)
    with server.connect() as client:
        client("CONFIG", "SET", "timeout", 9, "slowlog-max-len", 7, "requirepass", "geheim")
        client("ACL", "SETUSER", "bob", "on", ">x", "~k*", "+get")
        assert client("CONFIG", "REWRITE") == "OK"
    text = server.config_path.read_text()
    assert text.startswith("# my own file\n\nmaxclients 500\ntimeout 9\n# the end\n# Generated")
    assert "\nslowlog-max-len 7\n" in text and "\nrequirepass geheim\n" in text
    assert "\nuser bob " in text and "\nuser default " in text
    server.password = "geheim"
    with server.connect() as client:
        assert client("CONFIG", "REWRITE") == "OK"
    assert server.config_path.read_text() == text
    server.stop()
    again = start(reactors=2, config=text)
    again.password = "geheim"
    with again.connect() as client:
        reply = client("CONFIG", "GET", "timeout", "maxclients", "slowlog-max-len")
        found = dict(zip(reply[::2], reply[1::2]))
        wanted = {b"timeout": b"9", b"maxclients": b"500", b"slowlog-max-len": b"7"}
        assert found == wanted
        assert client("AUTH", "bob", "x") == "OK"
        assert client.error("GET", "other").startswith("NOPERM")


def test_without_a_file_it_is_refused_as_by_redis(shared):
    with shared.connect() as client:
        error = client.error("CONFIG", "REWRITE")
        assert error == "ERR The server is running without a config file"


def test_a_file_that_cannot_be_written_stays(start):
    server = start(config=CONFIG)
    with server.connect() as client:
        client("CONFIG", "SET", "timeout", 9)
        folder = server.config_path.parent
        os.rename(server.config_path, folder / "elsewhere")
        os.mkdir(server.config_path)
        assert client.error("CONFIG", "REWRITE").startswith("ERR Rewriting config file: ")
        os.rmdir(server.config_path)
        assert client("CONFIG", "REWRITE") == "OK"  # an absent file is written anew
        assert "timeout 9" in server.config_path.read_text()
        assert not list(folder.glob("*.tmp-*"))


def test_the_mode_of_the_file_stays(start):
    server = start(config=CONFIG)
    os.chmod(server.config_path, 0o640)
    with server.connect() as client:
        assert client("CONFIG", "REWRITE") == "OK"
        assert client("CONFIG", "GET", "port", "timeout")[::2] == [b"port", b"timeout"]
    assert server.config_path.stat().st_mode & 0o777 == 0o640
