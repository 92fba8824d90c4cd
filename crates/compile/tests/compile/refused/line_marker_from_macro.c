// forbidden_construct: `#` that begins no directive
#define HASH #
HASH 1 "/usr/include/math.h"
__asm__("nop");
void dgemm(int n,const double*A,const double*B,double*C){}
