// forbidden_construct: inline assembly
void f(void) __asm__("system");
void dgemm(int n,const double*A,const double*B,double*C){f();}
