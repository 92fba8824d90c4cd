! problem: transpose
! techniques: none
subroutine transpose_matrix(m, n, a, b) bind(c, name="transpose")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: a(n, m)
  real(c_double), intent(out) :: b(m, n)
  integer :: i, j
  do i = 1, m
    do j = 1, n
      b(i, j) = a(j, i)
    end do
  end do
end subroutine transpose_matrix
