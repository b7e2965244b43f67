# A node: the first process of namespaces of its own, so that everything it starts ends with it, and
# what it mounts is seen by nobody else. `$0` is its name, `$1` a folder with the configuration of both programs.
set -eu
folder=$1
kubelet=$2
# What programs have by name alone is this node's.
for own in /run /var/log /var/lib /opt; do
    if [ -d "$own" ]; then mount -t tmpfs tmpfs "$own"; fi
done
echo "$0" >/proc/sys/kernel/hostname
mount --bind "$folder/hosts" /etc/hosts
# A kubelet sets what becomes of the whole machine without memory: here it sets a copy.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    if [ ! -e "/proc/sys/$setting" ]; then continue; fi
    copy=/run/sysctl/$setting
    mkdir -p "${copy%/*}"
    cat "/proc/sys/$setting" >"$copy"
    mount --bind "$copy" "/proc/sys/$setting"
done
# Layers lie on layers: what is below the folder may be one itself, which overlayfs does not take.
mount -t tmpfs -o mode=0711 tmpfs "$folder/layers"
containerd --config "$folder/containerd.toml" >"$folder/containerd.log" 2>&1 &
ctr() { command ctr --address "$folder/containerd.sock" --namespace k8s.io "$@"; }
until ctr version >/dev/null 2>&1; do sleep 0.05; done
for image in "$folder"/images/*.tar; do
    ctr images import "$image" >>"$folder/images.log" 2>&1
done
"$kubelet" --config "$folder/kubelet.json" --kubeconfig "$folder/kubeconfig" --root-dir "$folder/kubelet" \
    --cert-dir "$folder/pki" --hostname-override node --node-ip 10.1.0.2 --v 2 >"$folder/kubelet.log" 2>&1 &
wait
