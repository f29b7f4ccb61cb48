async (_, ...others) => {
  const file = document.querySelector("#picture-file").files[0];
  if (!file) return ["", ...others];
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve([reader.result, ...others]);
    reader.onerror = () => resolve(["", ...others]);
    reader.readAsDataURL(file.size > MOST ? file.slice(0, MOST + 3) : file);
  });
}
