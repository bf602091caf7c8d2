#include "cuda_driver.h"

#include "cuda_said.h"

#include <dlfcn.h>
#include <string.h>

/* An object pointer and a function pointer are alike wherever dlsym is. */
static bool find_function(void *library, const char *name, void *field)
{
    void *address = dlsym(library, name);
    memcpy(field, &address, sizeof(address));
    return address != NULL;
}

#define TEXT_OF(name)   #name
#define NAME_TEXT(name) TEXT_OF(name)
#define FIND(function)                                                             \
    if (missing == NULL &&                                                         \
        !find_function(driver->library, NAME_TEXT(function), &driver->function)) { \
        missing = NAME_TEXT(function);                                             \
    }

static const char *find_functions(struct cuda_driver *driver)
{
    const char *missing = NULL;
    CUDA_FUNCTIONS(FIND)
    return missing;
}

enum kvasir_status cuda_driver_open(struct cuda_driver *driver, const char *path, char *said)
{
    const char *missing;
    CUresult result;
    memset(driver, 0, sizeof(*driver));
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (driver->library == NULL) {
        return cuda_said(said, KVASIR_NOT_FOUND, "no CUDA driver here (%s)", dlerror());
    }
    missing = find_functions(driver);
    if (missing != NULL) {
        cuda_driver_close(driver);
        return cuda_said(said, KVASIR_UNSUPPORTED, "the CUDA driver is too old: it has no %s",
                         missing);
    }
    result = driver->cuInit(0);
    if (result != CUDA_SUCCESS) {
        cuda_said(said, KVASIR_IO, "the CUDA driver does not start: %s",
                  cuda_driver_error(driver, result));
        cuda_driver_close(driver);
        return KVASIR_IO;
    }
    return KVASIR_OK;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    if (driver->library != NULL) {
        (void)dlclose(driver->library);
        driver->library = NULL;
    }
}

const char *cuda_driver_error(const struct cuda_driver *driver, CUresult result)
{
    const char *name = NULL;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
        return "an error that it has no name for";
    }
    return name;
}
