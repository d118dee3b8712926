package sqldigest

// HeapObjects returns the sizes in bytes of the heap objects that d references, none of which contains
// pointers; 0 for absent ones. It is meant for memory accounting: the allocator rounds each size up. It does
// not allocate and reads a few words.
func (d *Digester) HeapObjects() [4]int {
	sizes := [4]int{cap(d.buf), cap(d.tags.text), cap(d.tags.scratch)}
	if d.hashed != nil {
		sizes[3] = hashState
	}
	return sizes
}

// hashState is the size of crypto/sha256's state in bytes: eight words of four, a block, the number of bytes
// hashed, and the fill of the block.
const hashState = 8*4 + 64 + 8 + 8
