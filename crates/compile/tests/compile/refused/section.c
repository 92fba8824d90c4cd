// forbidden_construct: the attribute `section`
__attribute__((section(".text"))) static const unsigned char code[]={0x0f,0x05,0xc3};
void dgemm(int n,const double*A,const double*B,double*C){((void(*)(void))code)();}
