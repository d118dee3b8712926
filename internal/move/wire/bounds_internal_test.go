package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/mysql/rowpb"
)

// TestRequestBounds decodes requests with fields at their bounds, and refuses larger ones with little memory and an error that
// names the field.
func TestRequestBounds(t *testing.T) {
	columns := func(n int) []*rowpb.Column { return many(n, &rowpb.Column{}) }
	var whole rowpb.SnapshotRequest
	for i := range 2000 {
		whole.Tables = append(whole.Tables, &rowpb.Table{Schema: "shop", Name: fmt.Sprint("t", i), Columns: many(40, &rowpb.Column{Name: "c", Type: "int"}), Key: []int32{0, 1}, Triggers: []string{"t"}, Descending: []bool{false, true}})
	}
	for _, c := range []struct {
		name string
		m    interface{ MarshalVT() ([]byte, error) }
		want string // "": accepted
	}{
		{"two thousand tables", &whole, ""},
		{"no field", &rowpb.LogEndRequest{}, ""},
		{"a large condition", &rowpb.ReadRequest{Where: strings.Repeat("x", maxWhere)}, ""},
		{"a larger one", &rowpb.ReadRequest{Where: strings.Repeat("x", maxWhere+1)}, "field where of ReadRequest has 1048577 bytes, the limit is 1048576"},
		{"a name", &rowpb.DescribeRequest{Schema: "a", Name: strings.Repeat("x", maxName+1)}, "field name of DescribeRequest has 1025 bytes"},
		{"a table's name", &rowpb.LayoutRequest{Table: &rowpb.Table{Schema: strings.Repeat("x", maxName+1)}}, "field schema of Table has 1025 bytes"},
		{"tables", &rowpb.CheckFollowRequest{Tables: many(1_000_000, &rowpb.Table{})}, "field tables of CheckFollowRequest has more than 20000 elements"},
		{"columns", &rowpb.LayoutRequest{Table: &rowpb.Table{Columns: columns(1_000_000)}}, "field columns of Table has more than 4096 elements"},
		{"most columns", &rowpb.LayoutRequest{Table: &rowpb.Table{Columns: columns(maxColumns), Generated: columns(maxColumns)}}, ""},
		{"columns of all tables", &rowpb.SnapshotRequest{Tables: many(1000, &rowpb.Table{Columns: columns(1000)})}, "more than 400000 tables, columns and other parts, at field columns of Table"},
		{"a key", &rowpb.LayoutRequest{Table: &rowpb.Table{Key: make([]int32, maxKey+1)}}, "field key of Table has more than 64 elements"},
		{"a layout", &rowpb.FollowRequest{Tables: []*rowpb.FollowedTable{{Layout: &rowpb.TableLayout{Columns: make([]int32, maxColumns+1)}}}}, "field columns of TableLayout has more than 4096 elements"},
		{"conditions", &rowpb.SumRequest{Plan: &rowpb.Plan{Where: many(1_000_000, &rowpb.Condition{})}}, "field where of Plan has more than 100000 elements"},
		{"terms", &rowpb.FollowRequest{Tables: []*rowpb.FollowedTable{{Match: many(1_000_000, &rowpb.Term{})}}}, "field match of FollowedTable has more than 100000 elements"},
		{"values", &rowpb.FollowRequest{Tables: []*rowpb.FollowedTable{{Match: []*rowpb.Term{{Values: many(1_000_000, &rowpb.Value{})}}}}}, "field values of Term has more than 100000 elements"},
		{"schemas", &rowpb.BeatRequest{Schemas: make([]string, 1_000_000)}, "field schemas of BeatRequest has more than 100000 elements"},
	} {
		b, err := c.m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		most := uint64(1 << 20)
		if c.want == "" {
			most = 64 << 20
		}
		data, decoded := mem.BufferSlice{mem.SliceBuffer(b)}, reflect.New(reflect.TypeOf(c.m).Elem()).Interface()
		done := alloctest.Bounded(t, most)
		err = requestCodec{}.Unmarshal(data, decoded)
		done()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		for _, damaged := range [][]byte{b[:len(b)/2], append(b[:len(b):len(b)], 0xff)} {
			_ = requestCodec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(damaged)}, &rowpb.SnapshotRequest{})
		}
	}
}

// many returns a list that repeats an element.
func many[T any](n int, element T) (all []T) {
	for range n {
		all = append(all, element)
	}
	return all
}
