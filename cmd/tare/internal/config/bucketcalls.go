package config

import (
	"errors"
	"time"

	"github.com/taredb/tare/store/storegateway"
)

// BucketCalls are the options for reading blocks from a bucket, shared by tare store and a gateway's history.
type BucketCalls struct {
	Timeout      time.Duration // of one call
	Tries        int
	Hedge        time.Duration // 0: none
	QueueTimeout time.Duration // for queries that wait for memory
}

// declare declares the options; queueTimeout is the name of the last one.
func (c *BucketCalls) declare(s *Set, queueTimeout string) {
	s.Duration(&c.QueueTimeout, queueTimeout, "1m", "how long a query waits for memory before it fails with 503")
	s.Duration(&c.Timeout, "bucket-timeout", "30s", "time limit of one read of the bucket")
	s.Int(&c.Tries, "bucket-tries", "3", 1, "tries of a read of the bucket")
	s.Duration(&c.Hedge, "bucket-hedge", "0", "repeat a read of a block beside the first after this long; 0: never")
}

func (c *BucketCalls) validate(queueTimeout string) error {
	if c.QueueTimeout == 0 || c.Timeout == 0 {
		return errors.New("--" + queueTimeout + " and --bucket-timeout: want more than 0")
	}
	return nil
}

// Apply copies the options to those of a store gateway.
func (c *BucketCalls) Apply(o *storegateway.Options) {
	o.CallTimeout, o.CallTries, o.CallHedge, o.QueueTimeout = c.Timeout, c.Tries, c.Hedge, c.QueueTimeout
}
