// forbidden_construct: directive
# 1 "/usr/include/math.h" 1 3
__asm__("nop");
# 4 "kernel.c" 2
void dgemm(int n,const double*A,const double*B,double*C){}
