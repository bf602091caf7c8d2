# Builds, tests and installs Kvasir. `make help` lists the targets.
#
#   make                              server, library, examples and benchmarks
#   make CC=clang                     another compiler (its own build directory)
#   make SANITIZE=address,undefined   instrumented (its own build directory); also SANITIZE=thread
#   make DEBUG=1                      slow checks on, -O1 (its own build directory)
#   make DEV=1                        warnings are errors (always so when CI is set)
#   make V=1                          show the commands
#   make test-unit TESTS="spsc heap"  only these unit programs
#   make test-unit LAYERS="base mem"  compiles only these layers, for work on one of them

# ---- configuration ---------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := gcc
endif
SANITIZE ?=
DEBUG ?=
COVERAGE ?=
BENCH_ARGS ?=
SOAK ?=
DEV ?= $(if $(CI),1,)
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 30
LAYERS ?= base mem proto route acl plug store net cluster server client
TESTS ?=

comma := ,
VERSION := $(shell cat VERSION)
SONAME := libkvasir.so.0
IS_CLANG := $(findstring clang,$(shell $(CC) --version | head -n 1))
COMPILER := $(if $(IS_CLANG),clang,gcc)
MODE := $(if $(SANITIZE),$(subst $(comma),-,$(SANITIZE)),release)$(if $(filter 1,$(DEBUG)),-debug)$(if $(COVERAGE),-coverage)
BUILD ?= build/$(COMPILER)-$(MODE)
# One spelling of one directory, so that a caller with an absolute path does not compile all anew.
override BUILD := $(patsubst $(CURDIR)/%,%,$(BUILD))

# ---- flags -----------------------------------------------------------------------------------

CSTD := -std=c17 -D_GNU_SOURCE
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion \
	-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wundef -Wvla -Walloca -Wcast-align -Wcast-qual -Wpointer-arith -Wwrite-strings \
	-Wformat=2 -Wnull-dereference -Wdouble-promotion -Wredundant-decls \
	-Wimplicit-fallthrough -Wswitch-enum -Wframe-larger-than=4096 -Wdate-time
WARN_gcc := -Wcast-align=strict -Wformat-signedness -Wformat-overflow=2 \
	-Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init \
	-Warray-bounds=2 -Wtrampolines
WARN_clang := -Wcomma -Wunreachable-code -Wassign-enum -Wconditional-uninitialized \
	-Wmissing-variable-declarations
# Sanitizers confuse the compilers' flow analysis: no errors from warnings there.
WERROR := $(if $(SANITIZE),,$(if $(filter 1,$(DEV)),-Werror))
HARDEN := -fno-common -fno-strict-aliasing -fvisibility=hidden -fstack-protector-strong \
	-fno-omit-frame-pointer

# Sanitizers replace fortification, and frames grow under them.
ifeq ($(COVERAGE),1)
MODE_FLAGS := -O0 -g --coverage
else ifneq ($(SANITIZE),)
MODE_FLAGS := -O1 -g -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -Wno-frame-larger-than
else ifeq ($(DEBUG),1)
MODE_FLAGS := -O1 -g -DKVASIR_DEBUG
else
MODE_FLAGS := -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
endif

PACKAGES := libevent_core libevent_pthreads libxxhash libssl libcrypto
PACKAGE_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PACKAGES) 2>/dev/null))
SERVER_LIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null || \
	echo -levent_core -levent_pthreads -lxxhash -lssl -lcrypto) -pthread -ldl -lm
CLIENT_LIBS := -lxxhash -pthread -ldl

INCLUDES := -Isrc -Isrc/include -I$(BUILD)/gen $(PACKAGE_CFLAGS)
BASE_CFLAGS := $(CSTD) $(WARN) $(WARN_$(COMPILER)) $(WERROR) $(HARDEN) $(INCLUDES) -pthread \
	-DKVASIR_VERSION='"$(VERSION)"'
ALL_CFLAGS := $(BASE_CFLAGS) $(MODE_FLAGS) $(CFLAGS)
TEST_CFLAGS = $(ALL_CFLAGS) -DKVASIR_FAULT $(if $(filter 1,$(DEBUG)),,-DKVASIR_DEBUG)
ALL_LDFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(COVERAGE),--coverage) -Wl,-z,relro,-z,now -Wl,-z,noexecstack \
	$(LDFLAGS)

FUZZ_CC ?= clang
FUZZ_SANITIZE := address,undefined
FUZZ_CFLAGS = $(CSTD) $(INCLUDES) -pthread -DKVASIR_VERSION='"$(VERSION)"' -O1 -g \
	-DKVASIR_FAULT -DKVASIR_DEBUG -fno-omit-frame-pointer -fno-sanitize-recover=all

# ---- sources ---------------------------------------------------------------------------------

SERVER_SOURCES := $(filter-out src/server/main.c,\
	$(foreach l,$(filter-out client,$(LAYERS)),$(wildcard src/$(l)/*.c)))
SERVER_MAIN := $(wildcard src/server/main.c)
CLIENT_SOURCES := $(if $(filter client,$(LAYERS)),$(wildcard src/client/*.c))
SHARED_SOURCES := $(foreach l,base proto route plug,$(wildcard src/$(l)/*.c))
UNIT_SOURCES := $(if $(TESTS),$(TESTS:%=tests/unit/test_%.c),$(wildcard tests/unit/test_*.c))
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
TEST_MODULE_SOURCES := $(wildcard tests/modules/*.c)
RDMA_TEST_SOURCES := $(wildcard tests/rdma/test_*.c)
EXAMPLE_SOURCES := $(wildcard tests/examples/*.c)
BENCH_SOURCES := $(wildcard bench/*.c)
PUBLIC_HEADERS := $(wildcard src/include/kvasir/*.h)
MAP := $(wildcard src/client/libkvasir.map)

SERVER_OBJECTS := $(SERVER_SOURCES:%.c=$(BUILD)/obj/%.o)
CLIENT_OBJECTS := $(CLIENT_SOURCES:%.c=$(BUILD)/pic/%.o)
SHARED_OBJECTS := $(SHARED_SOURCES:%.c=$(BUILD)/pic/%.o)
# The client library is in the test archive too, so that its units can be tested from within; and the
# whole server in one process, for those who want it.
WORLD_SOURCES := $(if $(filter server,$(LAYERS)),$(wildcard tests/world/*.c))
TEST_OBJECTS := $(sort $(SERVER_SOURCES) $(CLIENT_SOURCES) $(WORLD_SOURCES))
TEST_OBJECTS := $(TEST_OBJECTS:%.c=$(BUILD)/test-obj/%.o)

SERVER := $(if $(SERVER_MAIN),$(BUILD)/kvasir-server)
LIBRARIES := $(if $(CLIENT_SOURCES),$(BUILD)/libkvasir.so $(BUILD)/libkvasir.a)
# Modules whose libraries are there; the others are left out, and so are their tests.
HAVE_VERBS := $(shell pkg-config --exists libibverbs && echo 1)
# The toolkit's header is all that is needed; the driver is opened at run time.
CUDA_HOME ?= /usr/local/cuda
HAVE_CUDA := $(if $(wildcard $(CUDA_HOME)/include/cuda.h),1)
# nvcc, of the toolkit, builds what runs on a device: tests alone. Without it they are reported as skipped.
NVCC ?= $(wildcard $(CUDA_HOME)/bin/nvcc)
NVCC_ARCH ?= -arch=all-major
MODULE_NAMES := $(if $(HAVE_VERBS),rdma) $(if $(HAVE_CUDA),cuda)
MODULE_FLAGS_cuda := -isystem $(CUDA_HOME)/include
MODULE_LIBS_cuda := -ldl
MODULE_LIBS_rdma := -libverbs -pthread
MODULES := $(MODULE_NAMES:%=$(BUILD)/modules/%.so)
FAKE_SOURCES := $(wildcard tests/fake/*.c)
FAKE_WRAPS := -Wl,--wrap=calloc,--wrap=aligned_alloc,--wrap=pthread_create
# Every allocation is a fault point (tests/world/fault_memory.h) in the programs that are linked with these.
FAULT_WRAPPED := malloc calloc realloc aligned_alloc strdup free mmap memfd_create eventfd
FAULT_WRAPS := $(FAULT_WRAPPED:%=-Wl,--wrap=%)
FAULT_PROGRAMS := $(patsubst %,$(BUILD)/tests/unit/test_%,server_fault)
UNIT_SOURCES := $(if $(HAVE_VERBS),$(UNIT_SOURCES),$(filter-out tests/unit/test_rdma_%,$(UNIT_SOURCES)))
UNIT_PROGRAMS := $(UNIT_SOURCES:%.c=$(BUILD)/%)
TEST_MODULES := $(TEST_MODULE_SOURCES:tests/modules/%.c=$(BUILD)/test-modules/%.so)
# They run in an emulated machine; without libibverbs they are not built, and reported as skipped.
RDMA_TEST_PROGRAMS := $(if $(HAVE_VERBS),$(RDMA_TEST_SOURCES:%.c=$(BUILD)/%))
REPLAY_PROGRAMS := $(FUZZ_SOURCES:%.c=$(BUILD)/%)
EXAMPLES := $(if $(CLIENT_SOURCES),$(EXAMPLE_SOURCES:%.c=$(BUILD)/%))
BENCHES := $(if $(CLIENT_SOURCES),$(BENCH_SOURCES:%.c=$(BUILD)/%))

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all

# A line a step; V=1 shows the commands themselves.
say = $(if $(V),,@echo '  $(1)	$(2:$(BUILD)/%=%)'; )

# ---- build -----------------------------------------------------------------------------------

.PHONY: all
all: $(SERVER) $(LIBRARIES) $(MODULES) $(EXAMPLES) $(BENCHES) ## Build server, library, modules, examples and benches (the default).

# Everything is compiled again when the flags change within one build directory.
FLAGS_LINE := $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(FLAGS_LINE))' | cmp -s - $@ || echo '$(subst ','\'',$(FLAGS_LINE))' >$@
.PHONY: FORCE
FORCE:

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -fPIC -MMD -MP -c $< -o $@

# A test may hold a buffer on the stack that the server may not.
$(BUILD)/test-obj/tests/%.o: TEST_CFLAGS += -Wframe-larger-than=65536

$(BUILD)/test-obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(TEST_CFLAGS) -MMD -MP -c $< -o $@

# Archives are made anew, so that an object whose source went away goes too; q takes two objects of
# the same file name, r would keep one.
$(BUILD)/server.a: $(SERVER_OBJECTS)
	@rm -f $@
	$(call say,AR,$@)$(AR) qcs $@ $^

$(BUILD)/shared.a: $(SHARED_OBJECTS)
	@rm -f $@
	$(call say,AR,$@)$(AR) qcs $@ $^

$(BUILD)/test.a: $(TEST_OBJECTS)
	@rm -f $@
	$(call say,AR,$@)$(AR) qcs $@ $^

$(BUILD)/kvasir-server: $(BUILD)/obj/src/server/main.o $(BUILD)/server.a
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(SERVER_LIBS) -o $@

# kvasir_status_name is public but nothing in the library may call it: it is pulled in by name.
KEEP := -Wl,-u,kvasir_status_name

$(BUILD)/$(SONAME): $(CLIENT_OBJECTS) $(BUILD)/shared.a $(MAP)
	$(call say,LINK,$@)$(CC) -shared -Wl,-soname,$(SONAME) $(MAP:%=-Wl,--version-script=%) $(ALL_LDFLAGS) $(KEEP) \
		$(CLIENT_OBJECTS) $(BUILD)/shared.a $(CLIENT_LIBS) -o $@

$(BUILD)/libkvasir.so: $(BUILD)/$(SONAME)
	@ln -sf $(SONAME) $@

# One relocatable object in which everything but the public names is local: a program that links
# the static library cannot clash with our inner names.
$(BUILD)/libkvasir.a: $(CLIENT_OBJECTS) $(BUILD)/shared.a
	@rm -f $@
	$(call say,LINK,$@)$(LD) -r -u kvasir_status_name $^ -o $(BUILD)/libkvasir.o
	@objcopy --localize-hidden $(BUILD)/libkvasir.o
	$(call say,AR,$@)$(AR) qcs $@ $(BUILD)/libkvasir.o

$(BUILD)/tests/unit/%: $(BUILD)/test-obj/tests/unit/%.o $(BUILD)/test.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $(WRAPS) $^ -lcmocka $(SERVER_LIBS) -o $@
$(FAULT_PROGRAMS): WRAPS := $(FAULT_WRAPS)

# What these programs share.
RDMA_TEST_SHARED := $(filter-out $(RDMA_TEST_SOURCES),$(wildcard tests/rdma/*.c))
$(BUILD)/tests/rdma/%: $(BUILD)/test-obj/tests/rdma/%.o \
		$(RDMA_TEST_SHARED:%.c=$(BUILD)/test-obj/%.o) $(BUILD)/libkvasir.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -Wl,--as-needed \
		-lkvasir -lcmocka -libverbs -lhiredis -ldl -o $@

# A module sees the public headers and its own, and links with nothing of ours.
$(BUILD)/module/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(filter-out -Isrc,$(ALL_CFLAGS)) $(MODULE_FLAGS_$(word 2,$(subst /, ,$<))) \
		-fPIC -MMD -MP -c $< -o $@

module_objects = $(patsubst %.c,$(BUILD)/module/%.o,$(wildcard modules/$(1)/*.c))
define module_rule
$(BUILD)/modules/$(1).so: $(call module_objects,$(1))
	@mkdir -p $$(@D)
	$$(call say,MODULE,$$@)$$(CC) -shared $$(ALL_LDFLAGS) $$^ $$(MODULE_LIBS_$(1)) -o $$@
endef
$(foreach name,$(MODULE_NAMES),$(eval $(call module_rule,$(name))))

# The rdma module's own tests run it on a libibverbs of memory copies, in which every call can fail. Named
# one by one: of two patterns make takes the one whose objects are there already.
$(filter $(BUILD)/tests/unit/test_rdma_%,$(UNIT_PROGRAMS)): $(BUILD)/tests/unit/%: \
		$(BUILD)/test-obj/tests/unit/%.o \
		$(FAKE_SOURCES:%.c=$(BUILD)/module/%.o) $(call module_objects,rdma) $(BUILD)/test.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $(FAKE_WRAPS) $^ -lcmocka -pthread -o $@

# The cuda module's run it on a driver of memory copies, which it opens as it does the true one. Without
# the toolkit the test says that it is skipped.
FAKE_CUDA := $(BUILD)/tests/fake_cuda/libcuda.so.1
$(FAKE_CUDA): tests/fake/cuda/fake_cuda.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) $(MODULE_FLAGS_cuda) -fvisibility=default -fPIC -shared -MMD -MP \
		-Wl,-soname,libcuda.so.1 $(ALL_LDFLAGS) $< -o $@
FAKE_CUDA_FLAGS := $(MODULE_FLAGS_cuda) -DFAKE_CUDA_LIBRARY='"$(abspath $(FAKE_CUDA))"' \
		-DCUDA_MODULE='"$(abspath $(BUILD))/modules/cuda.so"'
$(BUILD)/test-obj/tests/unit/test_cuda_%.o: ALL_CFLAGS += $(FAKE_CUDA_FLAGS)
$(BUILD)/test-obj/tests/unit/test_client_device.o: ALL_CFLAGS += $(FAKE_CUDA_FLAGS)
$(BUILD)/tests/unit/test_cuda_%: $(BUILD)/test-obj/tests/unit/test_cuda_%.o \
		$(if $(HAVE_CUDA),$(call module_objects,cuda) $(FAKE_CUDA))
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -Wl,-rpath,'$$ORIGIN/../fake_cuda' -lcmocka -ldl -pthread -o $@
# The client's meets it as it does the true one: in the process already, found by its name.
$(BUILD)/tests/unit/test_client_device: $(BUILD)/test-obj/tests/unit/test_client_device.o \
		$(BUILD)/test.a $(if $(HAVE_CUDA),$(FAKE_CUDA) $(BUILD)/modules/cuda.so)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $(filter-out %/cuda.so,$^) -Wl,-rpath,'$$ORIGIN/../fake_cuda' \
		-lcmocka $(SERVER_LIBS) -o $@

# The runtime, which is linked in, opens the driver when it is first asked.
NVCC_FLAGS := -std=c++17 -O2 --Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror $(NVCC_ARCH)
CUDA_TEST_OBJECTS := $(patsubst %.cu,$(BUILD)/cuda/%.o,$(wildcard tests/cuda/*.cu)) \
		$(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/cuda/*.c))
CUDA_TEST := $(if $(NVCC),$(BUILD)/tests/cuda/test_device)
$(BUILD)/cuda/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$@)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(BUILD)/tests/cuda/test_device: $(CUDA_TEST_OBJECTS) $(BUILD)/libkvasir.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $(CUDA_TEST_OBJECTS) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' \
		-lkvasir -lcmocka $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)) \
		-lstdc++ -ldl -lrt -pthread -o $@

# Modules for tests see the public headers only, and link with nothing of ours: as a stranger's do.
$(BUILD)/test-modules/%.so: tests/modules/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,MODULE,$@)$(CC) $(filter-out -Isrc,$(ALL_CFLAGS)) -fPIC -shared -MMD -MP $(ALL_LDFLAGS) $< -o $@

$(BUILD)/tests/unit/test_loader: | $(TEST_MODULES)

$(BUILD)/tests/fuzz/%: $(BUILD)/test-obj/tests/fuzz/%.o $(BUILD)/test-obj/tests/fuzz/replay.o \
		$(BUILD)/test.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(SERVER_LIBS) -o $@

# Examples and benchmarks use the library as a stranger would; benchmarks may look at base as well.
$(BUILD)/tests/examples/%: $(BUILD)/obj/tests/examples/%.o $(BUILD)/libkvasir.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $< -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -lkvasir \
		$(if $(findstring hiredis,$*),-lhiredis) -pthread -o $@

# The store by itself, without a server around it.
$(BUILD)/bench/fragment_store $(BUILD)/bench/evict $(BUILD)/bench/index: $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o \
		$(BUILD)/server.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ $(SERVER_LIBS) -lm -o $@

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libkvasir.so $(BUILD)/shared.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) $< -L$(BUILD) -Wl,-rpath,'$$ORIGIN/..' -lkvasir $(BUILD)/shared.a \
		-lxxhash -pthread -lm -o $@

# ---- tests -----------------------------------------------------------------------------------

export KVASIR_BUILD = $(abspath $(BUILD))
RUN_TESTS := utils/run_tests.sh $(BUILD)

.PHONY: test test-unit test-fuzz test-install test-integration test-python test-sanitize test-compat test-clients test-rdma test-cuda test-vllm test-lmcache fuzz fuzz-all soak coverage
test: all $(UNIT_PROGRAMS) $(REPLAY_PROGRAMS) $(TEST_MODULES) ## Run all tests: unit, fuzz replay, installation, integration, Python.
	$(RUN_TESTS) unit fuzz install integration python connector

test-unit: $(UNIT_PROGRAMS) ## Run the unit tests (TESTS="spsc heap" picks programs).
	$(if $(TESTS),TESTS="$(TESTS)" )$(RUN_TESTS) unit

test-fuzz: $(REPLAY_PROGRAMS) ## Replay the corpus of every fuzz target.
	$(RUN_TESTS) fuzz

test-install: all ## Install into an empty folder and build programs against it.
	$(RUN_TESTS) install

test-integration: all $(TEST_MODULES) $(if $(HAVE_CUDA),$(FAKE_CUDA)) ## Run the tests of a real server with real clients.
	$(RUN_TESTS) integration

test-python: all $(if $(HAVE_CUDA),$(FAKE_CUDA)) ## Run the tests of the Python package.
	$(RUN_TESTS) python

test-sanitize: ## Run tests under ASan+UBSan, the multi-core ones under TSan.
	+CC="$(CC)" utils/run_sanitize.sh $(BUILD)-sanitize

# The floor is what must hold in the layers that need no machine around them; it only rises.
COVERED := base mem proto route store
coverage: ## Run the unit tests with coverage; fail below 85 % of lines.
	+$(MAKE) --no-print-directory COVERAGE=1 BUILD=$(BUILD)-coverage test-unit
	gcovr --root . --exclude-unreachable-branches --print-summary --fail-under-line 85 \
		$(COVERED:%=--filter 'src/%/') $(BUILD)-coverage/test-obj

test-compat: all ## Run Redis's own test-suite (fetched from Debian; skipped when out of reach).
	$(RUN_TESTS) compat

test-clients: all ## Run stock clients: their own tests, and ours with them (skipped when out of reach).
	$(RUN_TESTS) clients

test-rdma: all $(RDMA_TEST_PROGRAMS) ## Run what needs RDMA in an emulated machine (skipped when out of reach).
	$(RUN_TESTS) rdma

test-cuda: all $(CUDA_TEST) ## Compile the CUDA code with nvcc; test with a device (else skipped by name).
	$(RUN_TESTS) cuda

test-vllm: all ## Run the tests with a real engine (needs make venv-vllm; else skipped by name).
	$(RUN_TESTS) vllm

test-lmcache: all ## Run LMCache's remote back ends (needs make venv-lmcache; else skipped by name).
	$(RUN_TESTS) lmcache

fuzz: $(if $(FUZZ),$(BUILD)/fuzz/fuzz_$(FUZZ)) ## Fuzz one parser: FUZZ=name FUZZ_SECONDS=30 (clang).
	@test -n "$(FUZZ)" || { echo "say which: $(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=FUZZ=%)"; exit 2; }
	@mkdir -p $(BUILD)/fuzz/corpus/$(FUZZ) tests/fuzz/corpus/$(FUZZ)
	$< -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
		-artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/corpus/$(FUZZ) tests/fuzz/corpus/$(FUZZ)

soak: all ## Run mixed load for a long time (SOAK="--seconds 1800 --connections 500").
	KVASIR_BUILD=$(BUILD) tests/soak/soak.py $(SOAK)

FUZZ_NAMES := $(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=%)
fuzz-all: $(FUZZ_NAMES:%=$(BUILD)/fuzz/fuzz_%) ## Fuzz every target for FUZZ_SECONDS (clang).
	utils/fuzz_all.sh $(BUILD) $(FUZZ_SECONDS) $(FUZZ_NAMES)

FUZZ_OBJECTS := $(TEST_OBJECTS:$(BUILD)/test-obj/%=$(BUILD)/fuzz-obj/%)
$(BUILD)/fuzz-obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link,$(FUZZ_SANITIZE) -MMD -MP -c $< -o $@

$(BUILD)/fuzz.a: $(FUZZ_OBJECTS)
	@rm -f $@
	$(call say,AR,$@)$(AR) qcs $@ $^

$(BUILD)/fuzz/fuzz_%: $(BUILD)/fuzz-obj/tests/fuzz/fuzz_%.o $(BUILD)/fuzz.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(FUZZ_CC) -fsanitize=fuzzer,$(FUZZ_SANITIZE) $^ $(SERVER_LIBS) -o $@

# ---- checks ----------------------------------------------------------------------------------

.PHONY: check check-deep check-symbols format
check: ## Check form: format, layers, headers, symbols, sizes, spelling, scripts.
	+utils/check.sh

# One of the checks of check.sh; it needs the objects.
check-symbols: $(SERVER_OBJECTS) $(CLIENT_OBJECTS) $(SHARED_OBJECTS) $(LIBRARIES)
	@utils/check_symbols.py $(SERVER_OBJECTS) $(CLIENT_OBJECTS) \
		$(if $(CLIENT_SOURCES),--library $(BUILD)/$(SONAME))

format: ## Give every C file the form that check asks for.
	git ls-files '*.c' '*.h' '*.cu' | grep -v /corpus/ | xargs clang-format -i

check-deep: ## Check more slowly: clang-tidy and cppcheck.
	utils/check_deep.sh $(CSTD) -Isrc -Isrc/include $(PACKAGE_CFLAGS) -DKVASIR_VERSION='"$(VERSION)"'

# ---- running and shipping --------------------------------------------------------------------

.PHONY: deps bench bench-fragment bench-rdma demo wheel venv-vllm venv-lmcache install clean help
deps: ## Install the system packages that building, testing and checking need.
	deps/install.sh

bench: all ## Measure against raw copies and installed peers (BENCH_ARGS=--quick).
	bench/run.sh $(BENCH_ARGS)

bench-fragment: all ## Measure how full a store's memory gets, beside the peers (BENCH_ARGS=--quick).
	KVASIR_BUILD=$(BUILD) bench/fragment.sh $(BENCH_ARGS)

bench-rdma: all ## Measure RDMA against perftest in an emulated machine (BENCH_ARGS=--quick).
	KVASIR_BUILD=$(BUILD) bench/rdma.sh $(BENCH_ARGS)

demo: ## Show it all at work: an engine stores KV blocks, a second one loads them.
	KVASIR_BUILD=$(BUILD) utils/demo.sh

wheel: all ## Build the Python wheel with server and library inside.
	python/build_wheel.sh

venv-vllm: ## Install the inference engine that test-vllm and the demo use.
	utils/venv_vllm.sh

venv-lmcache: ## Install LMCache, over the engine's environment, for test-lmcache.
	utils/venv_lmcache.sh

INSTALL_SERVER = install -D -m 755 $(SERVER) $(DESTDIR)$(PREFIX)/bin/kvasir-server

install: all ## Install server, library, modules, headers and pkg-config file (PREFIX=, DESTDIR=).
	$(if $(SERVER),$(INSTALL_SERVER))
	install -D -m 755 $(BUILD)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/libkvasir.so.$(VERSION)
	ln -sf libkvasir.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libkvasir.so
	install -D -m 644 $(BUILD)/libkvasir.a $(DESTDIR)$(PREFIX)/lib/libkvasir.a
	install -d $(DESTDIR)$(PREFIX)/lib/kvasir/modules
	$(if $(MODULES),install -m 755 $(MODULES) $(DESTDIR)$(PREFIX)/lib/kvasir/modules)
	install -d $(DESTDIR)$(PREFIX)/include/kvasir $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 $(PUBLIC_HEADERS) $(DESTDIR)$(PREFIX)/include/kvasir
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' \
		'Name: kvasir' 'Description: Client library of the Kvasir KV-cache store' \
		'Version: $(VERSION)' 'Libs: -L$${libdir} -lkvasir' 'Libs.private: $(CLIENT_LIBS)' \
		'Cflags: -I$${includedir}' >$(DESTDIR)$(PREFIX)/lib/pkgconfig/kvasir.pc

clean: ## Remove this configuration's build directory.
	rm -rf $(BUILD) $(BUILD)-sanitize-asan $(BUILD)-sanitize-tsan $(BUILD)-coverage

help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "  %-18s%s\n", $$1, $$2}'

-include $(shell test -d $(BUILD) && find $(BUILD) -name '*.d')
