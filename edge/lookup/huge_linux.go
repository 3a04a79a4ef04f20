package lookup

import "golang.org/x/sys/unix"

// preferHuge asks for huge pages. Without them it is slower, and that is all.
func preferHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
