//go:build gcs

package bucketurl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"cloud.google.com/go/storage"
	"github.com/go-kit/log"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/gcs"
	"google.golang.org/api/googleapi"
)

// A gcsCloud is a bucket of Google Cloud Storage.
type gcsCloud struct{ config gcs.Config }

// gcsName matches the names of buckets.
var gcsName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

func parseGCS(b *URL, query url.Values) (cloud, error) {
	if !gcsName.MatchString(b.bucket) {
		return nil, errors.New("the bucket URL has a name that no bucket of Google can have: want 3 to 222 lower-case letters, digits, dots, hyphens and underscores")
	}
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
	return gcs.NewBucketWithConfig(context.Background(), log.NewNopLogger(), c.config, "tare", checkListings(bucket, gcsPager))
}

// gcsPager is that of the JSON API. The client requests neither the kind of the response nor the bucket of the
// objects: a response of another service would look like a listing without objects.
var gcsPager = pager{
	request: func(r *http.Request) (prefix, token string, ok bool) {
		q := r.URL.Query()
		if !q.Has("prefix") || path.Base(r.URL.Path) != "o" {
			return "", "", false
		}
		if fields := q.Get("fields"); fields != "" {
			q.Set("fields", strings.Replace(fields, "items(", "items(bucket,", 1)+",kind")
			r.URL.RawQuery = q.Encode()
		}
		return q.Get("prefix"), q.Get("pageToken"), true
	},
	parse: func(query url.Values, body []byte) (page, error) {
		var l struct {
			Kind, NextPageToken string
			Items               []struct{ Bucket, Name string }
			Prefixes            []string
		}
		if err := json.Unmarshal(body, &l); err != nil {
			return page{}, fmt.Errorf("decode it: %w", err)
		}
		if l.Kind != "storage#objects" {
			return page{}, fmt.Errorf("its kind is %.80q, not storage#objects", l.Kind)
		}
		p := page{prefix: query.Get("prefix"), next: l.NextPageToken}
		for _, o := range l.Items {
			p.buckets = append(p.buckets, o.Bucket)
			p.names = append(p.names, o.Name)
		}
		p.names = append(p.names, l.Prefixes...)
		return p, nil
	},
}

func (gcsCloud) identity() []string { return []string{"gs"} }

// missingGCS reports whether an error means that a bucket does not exist. Google responds with the same status
// for an object, for which objstore's error is another: only listing returns it.
func missingGCS(err error) bool {
	var status *googleapi.Error
	return errors.Is(err, storage.ErrBucketNotExist) || errors.As(err, &status) && status.Code == http.StatusNotFound
}
