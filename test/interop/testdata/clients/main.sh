# Calls each URL on the standard input and prints the status, or the error. "later" sets the clock to a minute later.
directory=$1
source "${BASH_SOURCE[0]%/*}/client.sh"
while read -r url; do
	if [[ $url == later ]]; then
		SECONDS=$((SECONDS + 60))
		continue
	fi
	if call "$url" >"$2" 2>&1; then
		tail --lines 1 "$2"
	else
		tr '\n' ' ' <"$2" && echo
	fi
done
