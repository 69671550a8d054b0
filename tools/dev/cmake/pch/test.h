// The same for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/dev/cmake/pch/library.h"
