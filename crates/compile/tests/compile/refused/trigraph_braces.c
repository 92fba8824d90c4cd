// forbidden_construct: trigraphs
void dgemm(int n,const double*A,const double*B,double*C) ??< (void)n; (void)A; (void)B; (void)C; ??>
