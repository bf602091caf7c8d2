/* test_rail – which device speaks to which, where one of two machines has several. */

#include "client/rail.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DEVICES 4

/* Devices whose GIDs stand for 10.0.NET.HOST. */
static struct kvasir_device devices[DEVICES];
static const struct kvasir_device *own[DEVICES];
static struct kvasir_link_address servers[DEVICES];

static void set_gid(struct kvasir_gid *gid, uint8_t net, uint8_t host)
{
    static const uint8_t IPV4[12] = {[10] = 0xff, [11] = 0xff};
    memcpy(gid->raw, IPV4, sizeof(IPV4));
    gid->raw[12] = 10;
    gid->raw[13] = 0;
    gid->raw[14] = net;
    gid->raw[15] = host;
}

static void set_nets(const uint8_t *own_nets, const uint8_t *server_nets)
{
    memset(devices, 0, sizeof(devices));
    memset(servers, 0, sizeof(servers));
    for (unsigned i = 0; i < DEVICES; i++) {
        own[i] = &devices[i];
        devices[i].gid_count = 1;
        set_gid(&devices[i].gids[0], own_nets[i], 1);
        set_gid(&servers[i].gid, server_nets[i], 2);
    }
}

static void assert_rail(uint32_t own_count, uint32_t server_count, uint32_t index,
                        uint32_t own_index, uint32_t server)
{
    struct rail rail = rail_choose(own, own_count, servers, server_count, index);
    assert_int_equal(rail.own, own_index);
    assert_int_equal(rail.server, server);
}

static void test_rail_count_is_of_the_side_with_more(void **state)
{
    (void)state;
    assert_int_equal(rail_count(0, 2), 0);
    assert_int_equal(rail_count(2, 0), 0);
    assert_int_equal(rail_count(1, 1), 1);
    assert_int_equal(rail_count(1, 3), 3);
    assert_int_equal(rail_count(2, 1), 2);
    assert_int_equal(rail_count(9, 1), RAILS_MAX);
}

static void test_rail_joins_devices_of_one_network(void **state)
{
    (void)state;
    set_nets((const uint8_t[]){7, 1, 4, 2}, (const uint8_t[]){1, 2, 4, 7});
    assert_rail(4, 4, 0, 1, 0);
    assert_rail(4, 4, 1, 3, 1);
    assert_rail(4, 4, 2, 2, 2);
    assert_rail(4, 4, 3, 0, 3);
}

static void test_rail_uses_every_device_where_all_are_alike(void **state)
{
    (void)state;
    set_nets((const uint8_t[]){1, 1, 1, 1}, (const uint8_t[]){1, 1, 1, 1});
    for (uint32_t i = 0; i < 4; i++) {
        assert_rail(4, 4, i, i, i);
    }
    assert_rail(2, 1, 1, 1, 0);
    assert_rail(2, 4, 3, 1, 3);
    assert_rail(1, 3, 2, 0, 2);
}

static void test_rail_avoids_another_kind_of_network(void **state)
{
    (void)state;
    set_nets((const uint8_t[]){1, 9, 1, 1}, (const uint8_t[]){1, 1, 1, 1});
    devices[0].layer = KVASIR_LAYER_INFINIBAND;
    assert_rail(2, 1, 0, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rail_count_is_of_the_side_with_more),
        cmocka_unit_test(test_rail_joins_devices_of_one_network),
        cmocka_unit_test(test_rail_uses_every_device_where_all_are_alike),
        cmocka_unit_test(test_rail_avoids_another_kind_of_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
