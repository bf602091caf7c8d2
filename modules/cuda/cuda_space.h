#pragma once
/* cuda_space – the operations of the space "cuda" (kvasir/space.h). state is a struct cuda_devices. */

#include "cuda_devices.h"

#include <kvasir/space.h>

extern const struct kvasir_space_ops cuda_space_ops;
