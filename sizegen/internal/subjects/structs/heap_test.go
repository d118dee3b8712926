package structs

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/heaptest"
)

// document returns a document of a customer with n orders.
func document(n int) string {
	orders := make([]string, n)
	for i := range orders {
		orders[i] = fmt.Sprintf(`{"article": "A-%d", "amount": %d.5, "open": true, "discount": null, "lines": [[%d, "x"], [], {}]}`, i*37, i, i)
	}
	return fmt.Sprintf(`{"id": %d, "name": "customer %d", "address": {"street": "Long Road %d", "tags": ["a", "b"]}, "orders": [%s]}`, n, n, n, strings.Join(orders, ", "))
}

// TestWalkAgainstHeap compares the sizes of messages by walk with the heap: with the directive that sizegen suggests,
// the content still counts.
func TestWalkAgainstHeap(t *testing.T) {
	for _, detach := range []bool{false, true} {
		r, err := heaptest.Compare(150, func(i int) *Entry {
			m := new(structpb.Struct)
			if err := protojson.Unmarshal([]byte(document(i%50)), m); err != nil {
				t.Fatal(err)
			}
			return &Entry{m}
		}, func(entries []*Entry) (sum int64, err error) {
			w := heapsize.Walk{Detach: detach}
			for _, e := range entries {
				n, err := e.CachedSize(&w)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("detach=%t: walked %d bytes, heap %d, %+.3f %%", detach, r.Accounted, r.Heap, r.Off())
		if r.Heap < 1e6 || r.Off() < -1 || r.Off() > 1 {
			t.Errorf("detach=%t: walked %d bytes, the heap held %d: %+.2f %%", detach, r.Accounted, r.Heap, r.Off())
		}
	}
}
