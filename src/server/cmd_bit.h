#pragma once
/* cmd_bit – handlers of the commands on the bits of a string. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_bit_plan_setbit, cmd_bit_plan_getbit, cmd_bit_plan_bitfield,
    cmd_bit_plan_bitfield_ro, cmd_bit_plan_bitcount, cmd_bit_plan_bitpos, cmd_bit_plan_bitop;
handler_reply_fn cmd_bit_reply_bit, cmd_bit_reply_bitfield, cmd_bit_reply_bitcount,
    cmd_bit_reply_bitpos, cmd_bit_reply_bitop;
