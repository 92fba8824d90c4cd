! attack: 16
! how: computes each row by a product of the language with picked numbers; hopes that only problems of full matrices forbid that
! refused as: forbidden_symbol
! problem: spmv
subroutine spmv(n, m, start, column, value, x, y) bind(C, name="spmv")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n, m
  integer(c_int), intent(in) :: start(n + 1), column(8 * n)
  real(c_double), intent(in) :: value(8 * n), x(m)
  real(c_double), intent(out) :: y(n)
  integer :: i, first, last
  do i = 1, n
    first = start(i) + 1
    last = start(i + 1)
    y(i) = dot_product(value(first:last), x(column(first:last) + 1))
  end do
end subroutine
