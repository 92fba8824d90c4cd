// forbidden_construct: directive `#line`
#define WHERE 1 "/usr/include/math.h"
#line WHERE
__asm__("nop");
void dgemm(int n,const double*A,const double*B,double*C){}
