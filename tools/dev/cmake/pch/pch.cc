// Carries a precompiled header: pch/library.h or pch/test.h.
