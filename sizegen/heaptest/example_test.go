package heaptest_test

import (
	"fmt"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/heaptest"
)

// The sizes of a thousand slices, beside the growth of the heap.
func ExampleCompare() {
	r, err := heaptest.Compare(1000,
		func(int) []byte { return make([]byte, 1000) }, // in the size class of 1,024 bytes
		func(values [][]byte) (sum int64, err error) {
			for _, v := range values {
				sum += int64(heapsize.Bytes(v))
			}
			return sum, nil
		})
	fmt.Println(r.Accounted, err) // r.Heap is the measured growth, r.Off the difference in percent
	// Output: 1024000 <nil>
}
