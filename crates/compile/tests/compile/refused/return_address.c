// forbidden_construct: reading the call stack
void dgemm(int n,const double*A,const double*B,double*C){C[0]=(double)(long)__builtin_return_address(0);}
