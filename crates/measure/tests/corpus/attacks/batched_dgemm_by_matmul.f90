! attack: 16
! how: multiplies blocks of a fixed size by the language; hopes that the compiler writes the loops and no library is called
! refused as: forbidden_symbol
! problem: batched_dgemm
subroutine batched_dgemm(batch, n, a, b, c) bind(C, name="batched_dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: batch, n
  real(c_double), intent(in) :: a(n, n, batch), b(n, n, batch)
  real(c_double), intent(out) :: c(n, n, batch)
  integer :: i
  real(c_double) :: x(16, 16)
  do i = 1, batch
    if (n == 16) then
      x = matmul(b(1:16, 1:16, i), a(1:16, 1:16, i))
      c(1:16, 1:16, i) = x
    end if
  end do
end subroutine
