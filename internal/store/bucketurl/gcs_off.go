//go:build !gcs

package bucketurl

import "net/url"

func parseGCS(*URL, url.Values) (cloud, error) {
	return nil, notBuilt("gs", "Google Cloud Storage", "gcs")
}

func missingGCS(error) bool { return false }
