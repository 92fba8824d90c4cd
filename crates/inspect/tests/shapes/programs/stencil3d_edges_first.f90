! problem: stencil3d
! techniques: branch_removal
subroutine stencil3d(d, h, w, in, out) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: d, h, w
  real(c_double), intent(in) :: in(w, h, d)
  real(c_double), intent(out) :: out(w, h, d)
  integer :: x, y, z
  out = in
  do z = 2, d - 1
    do y = 2, h - 1
      do x = 2, w - 1
        out(x, y, z) = 0.25d0 * in(x, y, z) + 0.125d0 * (in(x - 1, y, z) + in(x + 1, y, z) + in(x, y - 1, z) &
          + in(x, y + 1, z) + in(x, y, z - 1) + in(x, y, z + 1))
      end do
    end do
  end do
end subroutine stencil3d
