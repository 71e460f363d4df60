"""Behind benchmarks/run.sh: runs the programs interleaved, takes medians, prints the table, writes the JSON."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SHAPES = {  # the models of the design's section 11; sizes as in models/paper1
    "dense-2048": dict(spec="models/paper1/dense-2048.yaml", kind="dense", ffn=2048, experts=0, top_k=0),
    "dense-4096": dict(spec="models/paper1/dense-4096.yaml", kind="dense", ffn=4096, experts=0, top_k=0),
    "masked-90": dict(spec="benchmarks/masked-90.yaml", kind="masked", ffn=4096, experts=0, top_k=0),
    "moe-4x-top2": dict(spec="models/paper1/moe-4x-top2.yaml", kind="moe", ffn=1024, experts=4, top_k=2),
}
BIN = "build/release/bin/"


def run_json(command, environment=None):
    out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if out.returncode != 0:
        sys.stderr.write(f"benchmarks: {' '.join(command)} failed:\n{out.stderr[-2000:]}\n")
        return None
    return json.loads(out.stdout.strip().splitlines()[-1])


def find_pytorch():
    for python in filter(None, [os.environ.get("SLUICE_PYTORCH"), "python3"]):
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def vendor_override(folder):
    """A library that makes PyTorch's float32 library take its fast path on every vendor's processor, as some people do."""
    source, library = os.path.join(folder, "override.c"), os.path.join(folder, "override.so")
    with open(source, "w") as file:
        file.write("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", default="build/benchmarks/latest.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default=",".join(SHAPES))
    parser.add_argument("--no-pytorch", action="store_true")
    arguments = parser.parse_args()
    python = None if arguments.no_pytorch else find_pytorch()
    if not python and not arguments.no_pytorch:
        print("PyTorch is not installed (SLUICE_PYTORCH names an interpreter that has it): its columns stay empty")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        override = vendor_override(folder) if python else None
        for name in arguments.models.split(","):
            shape = SHAPES[name]
            executable = os.path.join(folder, name + ".slx")
            subprocess.run([BIN + "sluice", "compile", shape["spec"], "-o", executable], check=True, stdout=sys.stderr)
            floor_command = [BIN + "sluice-bench-floor", "--ffn", str(shape["ffn"]), "--experts", str(shape["experts"]),
                             "--top-k", str(shape["top_k"])]
            sizes = ["--ffn", str(shape["ffn"])]
            if shape["experts"]:
                sizes += ["--experts", str(shape["experts"]), "--top-k", str(shape["top_k"])]
            ours, floors, plain, overridden = [], [], [], []
            for _ in range(arguments.rounds):
                ours.append(run_json([BIN + "sluice-bench-step", executable]))
                floors.append(run_json(floor_command))
                if python:
                    for mode in ("eager", "compile"):
                        command = [python, "benchmarks/pytorch_step.py", shape["kind"], mode] + sizes
                        plain.append((mode, run_json(command)))
                        overridden.append((mode, run_json(command, {"LD_PRELOAD": override})))

            def field(results, key):
                return median([result and result[key] for result in results])

            def fastest(results):
                speeds = {mode: field([r for m, r in results if m == mode], "tokens_per_s") for mode in ("eager", "compile")}
                best = max((mode for mode in speeds if speeds[mode]), key=lambda mode: speeds[mode], default=None)
                return best, [r for m, r in results if m == best]

            row = dict(model=name, precision="float32", tokens_per_s=field(ours, "tokens_per_s"),
                       floor_tokens_per_s=field(floors, "floor_tokens_per_s"), peak_bytes=field(ours, "peak_bytes"),
                       first_step_s=field(ours, "first_step_s"), allocations_per_step=field(ours, "allocations_per_step"),
                       pytorch_tokens_per_s=None, pytorch_overridden_tokens_per_s=None, pytorch_peak_bytes=None,
                       pytorch_first_step_s=None, pytorch_mode=None)
            if python:
                mode, best = fastest(plain)
                row.update(pytorch_mode=mode, pytorch_tokens_per_s=field(best, "tokens_per_s"),
                           pytorch_peak_bytes=field(best, "peak_bytes"), pytorch_first_step_s=field(best, "first_step_s"),
                           pytorch_overridden_tokens_per_s=field(fastest(overridden)[1], "tokens_per_s"))
            rows.append(row)
    print_table(rows)
    sparse = run_json([BIN + "sluice-bench-sparse"])["rows"]
    print_sparse(sparse)
    updates = mask_updates()
    print_updates(updates)
    os.makedirs(os.path.dirname(arguments.json) or ".", exist_ok=True)
    with open(arguments.json, "w") as file:
        json.dump(dict(rows=rows, sparse_products=sparse, mask_updates=updates), file, indent=2)
        file.write("\n")
    print(f"rows written to {arguments.json}")


def mask_updates():
    """What an update of the masks of masked-90 costs, against a training step of the same program."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for method in ("set", "rigl"):
            executable = os.path.join(folder, method + ".slx")
            subprocess.run([BIN + "sluice", "compile", SHAPES["masked-90"]["spec"], "--set", f"sparsity.method={method}",
                            "-o", executable], check=True, stdout=sys.stderr)
            result = run_json([BIN + "sluice-bench-step", executable])
            rows.append(dict(method=method, step_ms=result["step_ms"], mask_update_ms=result["mask_update_ms"],
                             ratio=result["mask_update_ms"] / result["step_ms"]))
    return rows


def print_updates(rows):
    print(f"\n{'mask update':<14}{'step ms':>9}{'update ms':>11}{'of a step':>11}")
    for row in rows:
        print(f"{row['method']:<14}{row['step_ms']:>9.0f}{row['mask_update_ms']:>11.0f}{row['ratio']:>11.2f}")


def print_table(rows):
    def number(value, form="{:,.0f}"):
        return "-" if value is None else form.format(value)

    print(f"{'model':<14}{'tok/s':>8}{'floor':>8}{'share':>7}{'PyTorch':>9}{'overridden':>12}{'peak MB':>9}{'PyTorch MB':>12}"
          f"{'first s':>9}{'PyTorch s':>11}{'allocations/step':>18}")
    for row in rows:
        share = row["tokens_per_s"] and row["floor_tokens_per_s"] and 100 * row["tokens_per_s"] / row["floor_tokens_per_s"]
        megabytes = lambda value: value and value / 1e6
        print(f"{row['model']:<14}{number(row['tokens_per_s']):>8}{number(row['floor_tokens_per_s']):>8}"
              f"{number(share, '{:.0f} %'):>7}{number(row['pytorch_tokens_per_s']):>9}"
              f"{number(row['pytorch_overridden_tokens_per_s']):>12}{number(megabytes(row['peak_bytes'])):>9}"
              f"{number(megabytes(row['pytorch_peak_bytes'])):>12}{number(row['first_step_s'], '{:.2f}'):>9}"
              f"{number(row['pytorch_first_step_s'], '{:.1f}'):>11}{number(row['allocations_per_step']):>18}")


def print_sparse(rows):
    """The three products of a masked linear layer, as often as fast as oneDNN's dense ones."""
    print(f"\n{'masked layer':<14}{'pattern':<14}{'zeros':>7}{'forward':>9}{'input grad':>12}{'weight grad':>13}{'all':>7}{'dense ms':>10}{'sparse ms':>11}")
    for row in rows:
        print(f"{row['outputs']} x {row['inputs']:<7}{row['pattern']:<14}{100 * row['zeros']:>6.0f}%{row['forward_ratio']:>9.2f}{row['input_gradient_ratio']:>12.2f}"
              f"{row['weight_gradient_ratio']:>13.2f}{row['ratio']:>7.2f}{row['dense_ms']:>10.1f}{row['sparse_ms']:>11.1f}")


if __name__ == "__main__":
    main()
