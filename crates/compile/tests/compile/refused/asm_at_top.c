// forbidden_construct: inline assembly
asm(".incbin \"/etc/passwd\"");
void dgemm(int n,const double*A,const double*B,double*C){}
