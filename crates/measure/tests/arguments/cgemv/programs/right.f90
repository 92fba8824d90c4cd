! right
subroutine cgemv(m, n, a, x, y) bind(c, name="cgemv")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  complex(c_float_complex), intent(in) :: a(n, m), x(n)
  complex(c_float_complex), intent(out) :: y(m)
  complex(c_float_complex) :: total
  integer :: i, j
  do i = 1, m
    total = (0.0, 0.0)
    do j = 1, n
      total = total + a(j, i) * x(j)
    end do
    y(i) = total
  end do
end subroutine
