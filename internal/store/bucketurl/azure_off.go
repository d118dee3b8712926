//go:build !azure

package bucketurl

import "net/url"

func parseAzure(*URL, url.Values) (cloud, error) {
	return nil, notBuilt("azblob", "Azure Blob Storage", "azure")
}

func missingAzure(error) bool { return false }
