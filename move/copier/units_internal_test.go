package copier

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestValidate has options of copies and dumps at the edges of what is valid.
func TestValidate(t *testing.T) {
	const copies, dumps = 1, 2
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string // "": valid
		of     int    // only of copies or dumps; 0: both
	}{
		{"the defaults", func(*Options) {}, "", 0},
		{"no source", func(o *Options) { o.From = nil }, "no server to", 0},
		{"no tables", func(o *Options) { o.Tables = nil }, "no tables to", 0},
		{"negative workers", func(o *Options) { o.Workers = -1 }, "option workers -1", 0},
		{"many workers", func(o *Options) { o.Workers = 256 }, "", 0},
		{"too many workers", func(o *Options) { o.Workers = 257 }, "option workers 257", 0},
		{"small chunks", func(o *Options) { o.ChunkBytes = 1 << 10 }, "", 0},
		{"too small chunks", func(o *Options) { o.ChunkBytes = 1<<10 - 1 }, "option chunk-bytes 1023", 0},
		{"large chunks", func(o *Options) { o.ChunkBytes = 1 << 30 }, "", 0},
		{"too large chunks", func(o *Options) { o.ChunkBytes = 1<<30 + 1 }, "option chunk-bytes 1073741825", 0},
		{"limits without what measures them", func(o *Options) { o.Throttle.MaxP99 = time.Second }, "p99", 0},
		{"followed", func(o *Options) { o.Follow = true }, "", copies},
		{"followed", func(o *Options) { o.Follow = true }, "of one point in time", dumps},
		{"a swap", func(o *Options) { o.Swap = SwapFunc(nil) }, "of one point in time", dumps},
		{"a cutover", func(o *Options) { o.Cutover = &cutover.Options{} }, "of one point in time", dumps},
		{"another name", func(o *Options) { o.Tables[0].ToName = "u" }, "rename tables", dumps},
		{"some columns", func(o *Options) { o.Tables[0].Columns = []tabledef.ColumnSpec{{}} }, "select columns", dumps},
		{"another name", func(o *Options) { o.Tables[0].ToName = "u" }, "", copies},
		{"until caught up", func(o *Options) { o.Follow, o.UntilCaughtUp = true, true }, "", copies},
		{"until caught up, not followed", func(o *Options) { o.UntilCaughtUp = true }, "no meaning", copies},
		{"views of an age", func(o *Options) { o.Follow, o.MaxViewAge = true, minViewAge }, "", copies},
		{"views of a lower age", func(o *Options) { o.Follow, o.MaxViewAge = true, minViewAge-1 }, "use " + minViewAge.String(), copies},
		{"views of an age, not followed", func(o *Options) { o.MaxViewAge = time.Hour }, "need changes to be followed", copies},
		{"a swap, followed", func(o *Options) { o.Follow, o.Swap = true, SwapFunc(nil) }, "", copies},
		{"a swap, not followed", func(o *Options) { o.Swap = SwapFunc(nil) }, "tables are swapped when", copies},
		{"a swap, until caught up", func(o *Options) {
			o.Follow, o.UntilCaughtUp, o.Swap = true, true, SwapFunc(nil)
		}, "tables are swapped when", copies},
		{"a swap and a cutover", func(o *Options) {
			o.Follow, o.Cutover, o.Swap = true, &cutover.Options{}, SwapFunc(nil)
		}, "tables are swapped when", copies},
		{"a cutover, followed", func(o *Options) { o.Follow, o.Cutover = true, &cutover.Options{} }, "", copies},
		{"a cutover, not followed", func(o *Options) { o.Cutover = &cutover.Options{} }, "a cutover needs", copies},
		{"a cutover, until caught up", func(o *Options) { o.Follow, o.UntilCaughtUp, o.Cutover = true, true, &cutover.Options{} }, "a cutover needs", copies},
		{"a cutover that is invalid", func(o *Options) {
			o.Follow, o.Cutover = true, &cutover.Options{Lag: -1, Gateway: gatewayclient.Gateway{URL: "http://x"}}
		}, "0 or more", copies},
		{"two tables to one", func(o *Options) { o.Tables = append(o.Tables, tabledef.Spec{Schema: "s", Name: "u", ToName: "t"}) }, "two tables go to s.t", copies},
		{"no target", func(o *Options) { o.To.Addr = "" }, "no address", copies},
	} {
		for of, validate := range map[int]func(*Options) error{copies: (*Options).validate, dumps: (*Options).validateDump} {
			if c.of != 0 && c.of != of {
				continue
			}
			o := Options{
				From: func(context.Context) (binlog.Follower, error) { return nil, errors.New("none") }, To: mysqlconn.Config{Addr: "x:1"},
				Tables: []tabledef.Spec{{Schema: "s", Name: "t"}},
			}
			o.setDefaults()
			c.change(&o)
			if err := validate(&o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(strings.ToLower(err.Error()), c.want) {
				t.Errorf("%s (%d): got %v, want %q", c.name, of, err, c.want)
			} else if err == nil && of == copies && (o.To.Patience != o.Patience || o.Follow && o.MaxViewAge == 0) {
				t.Errorf("%s: %+v", c.name, o)
			}
		}
	}
}
