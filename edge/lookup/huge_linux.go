package lookup

import "golang.org/x/sys/unix"

// preferHuge asks for huge pages. Without them the table is slower.
func preferHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
