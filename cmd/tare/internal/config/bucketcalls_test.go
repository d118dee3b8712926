package config

import (
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/store/storegateway"
)

// TestBucketCalls sets the options in both servers that read blocks, and applies them.
func TestBucketCalls(t *testing.T) {
	serve, store := NewServe(), NewStore()
	for _, c := range []struct {
		command Command
		calls   *BucketCalls
		queue   string
	}{{serve, &serve.History.Calls, "history-queue-timeout"}, {store, &store.Calls, "queue-timeout"}} {
		flags := map[string]string{"bucket": "file:///tmp", "bucket-timeout": "7s", "bucket-tries": "5", "bucket-hedge": "300ms", c.queue: "9s"}
		if _, err := c.command.Load(Input{Flags: flags}); err != nil {
			t.Fatal(err)
		}
		var o storegateway.Options
		c.calls.Apply(&o)
		if o.CallTimeout != 7*time.Second || o.CallTries != 5 || o.CallHedge != 300*time.Millisecond || o.QueueTimeout != 9*time.Second {
			t.Errorf("%s: %+v", c.queue, o)
		}
		flags["bucket-timeout"] = "0"
		if _, err := c.command.Load(Input{Flags: flags}); err == nil || !strings.Contains(err.Error(), "--"+c.queue+" and --bucket-timeout: want more than 0") {
			t.Errorf("%s: no time: %v", c.queue, err)
		}
	}
}
