# Calls each URL on the standard input and prints the status, or the error.
directory=$1
source "${BASH_SOURCE[0]%/*}/client.sh"
while read -r url; do
	if call "$url" >"$2" 2>&1; then
		tail --lines 1 "$2"
	else
		tr '\n' ' ' <"$2" && echo
	fi
done
