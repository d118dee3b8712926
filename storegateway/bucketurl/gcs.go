//go:build gcs

package bucketurl

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"cloud.google.com/go/storage"
	"github.com/go-kit/log"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/gcs"
	"google.golang.org/api/googleapi"
)

// A gcsCloud is a bucket of Google Cloud Storage.
type gcsCloud struct{ config gcs.Config }

func parseGCS(b *URL, query url.Values) (cloud, error) {
	c := gcsCloud{gcs.DefaultConfig}
	if b.file != "" {
		if err := b.readConfig("GCS", &c.config); err != nil {
			return nil, err
		}
		if err := b.checkBucket(c.config.Bucket); err != nil {
			return nil, err
		}
	}
	err := setAll(query, func(key, _ string) error {
		if key != "config_file" {
			return errors.New("a bucket parameter is unknown; gs has config_file")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.config.MaxRetries == 0 {
		c.config.MaxRetries = maxRetries
	}
	return c, nil
}

func (c gcsCloud) open(bucket string) (objstore.Bucket, error) {
	c.config.Bucket = bucket
	return gcs.NewBucketWithConfig(context.Background(), log.NewNopLogger(), c.config, "tare", nil)
}

func (gcsCloud) identity() []string { return []string{"gs"} }

// missingGCS reports whether an error means that a bucket does not exist. Google responds with the same status
// for an object, for which objstore's error is another: only listing returns it.
func missingGCS(err error) bool {
	var status *googleapi.Error
	return errors.Is(err, storage.ErrBucketNotExist) || errors.As(err, &status) && status.Code == http.StatusNotFound
}
