#pragma once
/* cmd_loan – KV.LEASE, KV.RESERVE and their kin on connections that use memory windows (lend_is_on): the
 * plans and replies that cmd_kv and cmd_shm hand over to. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_loan_plan_lease, cmd_loan_plan_release, cmd_loan_plan_reserve,
    cmd_loan_plan_commit, cmd_loan_plan_abort;
handler_reply_fn cmd_loan_reply_lease, cmd_loan_reply_release, cmd_loan_reply_reserve,
    cmd_loan_reply_commit, cmd_loan_reply_abort;
