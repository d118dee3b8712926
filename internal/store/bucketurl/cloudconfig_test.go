//go:build gcs && azure

package bucketurl

// For tests outside of the package.
var (
	GCSConfig   = gcsConfig
	AzureConfig = azureConfig
)
