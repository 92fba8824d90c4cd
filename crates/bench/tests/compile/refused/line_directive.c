// forbidden_construct: directive `#line`
#line 1 "math.h"
__asm__("nop");
void dgemm(int n,const double*A,const double*B,double*C){}
