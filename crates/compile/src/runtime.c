/* The parts of the run-time libraries of C++ and Fortran that programs need: memory, and an end for what must not
   happen. Names are those that compilers write on Linux with 64-bit addresses. */
#include <stdlib.h>

typedef unsigned long size;

static void *some(size bytes) { return malloc(bytes ? bytes : 1); }
static void *aligned(size bytes, size to) { return aligned_alloc(to, (bytes + to - 1) / to * to); }
static void *there(void *p) {
  if (!p) abort();
  return p;
}

/* operator new, new[] */
void *_Znwm(size n) { return there(some(n)); }
void *_Znam(size n) { return there(some(n)); }
void *_ZnwmSt11align_val_t(size n, size to) { return there(aligned(n, to)); }
void *_ZnamSt11align_val_t(size n, size to) { return there(aligned(n, to)); }
void *_ZnwmRKSt9nothrow_t(size n, const void *tag) { return some(n); }
void *_ZnamRKSt9nothrow_t(size n, const void *tag) { return some(n); }
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size n, size to, const void *tag) { return aligned(n, to); }
void *_ZnamSt11align_val_tRKSt9nothrow_t(size n, size to, const void *tag) { return aligned(n, to); }
const char _ZSt7nothrow = 0;

/* operator delete, delete[] */
void _ZdlPv(void *p) { free(p); }
void _ZdaPv(void *p) { free(p); }
void _ZdlPvm(void *p, size n) { free(p); }
void _ZdaPvm(void *p, size n) { free(p); }
void _ZdlPvSt11align_val_t(void *p, size to) { free(p); }
void _ZdaPvSt11align_val_t(void *p, size to) { free(p); }
void _ZdlPvmSt11align_val_t(void *p, size n, size to) { free(p); }
void _ZdaPvmSt11align_val_t(void *p, size n, size to) { free(p); }
void _ZdlPvRKSt9nothrow_t(void *p, const void *tag) { free(p); }
void _ZdaPvRKSt9nothrow_t(void *p, const void *tag) { free(p); }

/* Where a library of C++ would throw, where one of Fortran would say what is wrong and stop. */
#define END(name) \
  void name(void) { abort(); }
END(_ZSt9terminatev)
END(__cxa_pure_virtual)
END(__cxa_deleted_virtual)
END(__cxa_throw_bad_array_new_length)
END(_ZSt17__throw_bad_allocv)
END(_ZSt28__throw_bad_array_new_lengthv)
END(_ZSt19__throw_logic_errorPKc)
END(_ZSt20__throw_domain_errorPKc)
END(_ZSt24__throw_invalid_argumentPKc)
END(_ZSt20__throw_length_errorPKc)
END(_ZSt20__throw_out_of_rangePKc)
END(_ZSt24__throw_out_of_range_fmtPKcz)
END(_ZSt21__throw_runtime_errorPKc)
END(_ZSt19__throw_range_errorPKc)
END(_ZSt20__throw_overflow_errorPKc)
END(_ZSt21__throw_underflow_errorPKc)
END(_ZSt25__throw_bad_function_callv)
END(_ZSt21__glibcxx_assert_failPKciS0_S0_)
END(_gfortran_os_error)
END(_gfortran_os_error_at)
END(_gfortran_runtime_error)
END(_gfortran_runtime_error_at)
