// forbidden_construct: line 3: inline assembly
void dgemm(int n,const double*A,const double*B,double*C){
 asm volatile("syscall");
}
