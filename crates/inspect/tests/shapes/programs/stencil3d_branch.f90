! problem: stencil3d
! techniques: none
subroutine stencil3d(d, h, w, in, out) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: d, h, w
  real(c_double), intent(in) :: in(w, h, d)
  real(c_double), intent(out) :: out(w, h, d)
  integer :: x, y, z
  do z = 1, d
    do y = 1, h
      do x = 1, w
        if (z == 1 .or. z == d .or. y == 1 .or. y == h .or. x == 1 .or. x == w) then
          out(x, y, z) = in(x, y, z)
        else
          out(x, y, z) = 0.25d0 * in(x, y, z) + 0.125d0 * (in(x - 1, y, z) + in(x + 1, y, z) + in(x, y - 1, z) &
            + in(x, y + 1, z) + in(x, y, z - 1) + in(x, y, z + 1))
        end if
      end do
    end do
  end do
end subroutine stencil3d
