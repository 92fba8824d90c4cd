// forbidden_construct: the attribute `cleanup`
static void f(int*p){while(*p)--*p;}
void dgemm(int n,const double*A,const double*B,double*C){int x __attribute__((cleanup(f)))=0;}
