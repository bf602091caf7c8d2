#pragma once
/* cmd_acl – handlers of ACL and its subcommands. See handlers.h; changes go by way of acl_change. */

#include "server/handlers.h"

handler_plan_fn cmd_acl_plan_deluser, cmd_acl_plan_load, cmd_acl_plan_log, cmd_acl_plan_setuser;
handler_reply_fn cmd_acl_reply_cat, cmd_acl_reply_change, cmd_acl_reply_deluser,
    cmd_acl_reply_dryrun, cmd_acl_reply_genpass, cmd_acl_reply_getuser, cmd_acl_reply_help,
    cmd_acl_reply_list, cmd_acl_reply_log, cmd_acl_reply_save, cmd_acl_reply_users,
    cmd_acl_reply_whoami;
