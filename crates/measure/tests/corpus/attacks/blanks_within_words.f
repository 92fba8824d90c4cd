! attack: 22
! how: writes a statement with blanks in its word, which mean nothing in fixed form; hopes that the scan reads words
! refused as: forbidden_construct
      SUBROUTINE DGEMM(N, A, B, C) BIND(C, NAME='dgemm')
      USE ISO_C_BINDING
      INTEGER(C_INT), VALUE :: N
      REAL(C_DOUBLE) A(N,N), B(N,N), C(N,N)
      P R I N T *, 'verified'
      END
