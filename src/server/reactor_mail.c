#include "base/check.h"
#include "server/acl_change.h"
#include "server/batch.h"
#include "server/gather.h"
#include "server/pin_mail.h"
#include "server/reactor.h"

static void receive_one(struct reactor *reactor, struct mail *mail)
{
    switch ((enum reactor_mail)mail->kind) {
    case MAIL_OPS:
        batch_execute_part(reactor, (struct batch_part *)(void *)mail);
        return;
    case MAIL_OPS_DONE:
        batch_part_done(reactor, (struct batch_part *)(void *)mail);
        return;
    case MAIL_PINS:
        pin_mail_execute(reactor, (struct pin_mail *)(void *)mail);
        return;
    case MAIL_PINS_DONE:
        pin_mail_returned(reactor, (struct pin_mail *)(void *)mail);
        return;
    case MAIL_TASK:
        gather_execute(reactor, (struct gather_task *)(void *)mail);
        return;
    case MAIL_ACL:
        acl_change_execute(reactor, (struct acl_change *)(void *)mail);
        return;
    case MAIL_ACL_DONE:
        acl_change_returned(reactor, (struct acl_change *)(void *)mail);
        return;
    case MAIL_TASK_DONE:
        gather_returned(reactor, (struct gather_task *)(void *)mail);
        return;
    }
    unreachable();
}

void reactor_receive(struct reactor *reactor)
{
    struct mail *mail = mailbox_receive(reactor->server->mailbox, reactor->index);
    while (mail != NULL) {
        struct mail *next = mail->next;
        receive_one(reactor, mail);
        mail = next;
    }
}
