package bucketurl

import (
	"fmt"
	"net/url"

	"github.com/thanos-io/objstore"
)

// A cloud is the part of a URL that depends on its provider, which a build tag selects.
type cloud interface {
	open(bucket string) (objstore.Bucket, error)
	identity() []string
}

func parseCloudURL(u *url.URL, parse func(*URL, url.Values) (cloud, error)) (URL, error) {
	b, query, err := parseLocation(u)
	if err != nil {
		return URL{}, err
	}
	if b.cloud, err = parse(&b, query); err != nil {
		return URL{}, err
	}
	return b, nil
}

// notBuilt returns the error of a URL whose provider this program was built without.
func notBuilt(scheme, provider, tag string) error {
	return fmt.Errorf("this tare was built without %s, for %s:// URLs: build it with go build -tags %s ./cmd/tare", provider, scheme, tag)
}
