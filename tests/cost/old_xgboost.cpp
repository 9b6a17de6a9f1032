extern "C" void XGBoostVersion(int* major, int* minor, int* patch) {
  *major = 1;
  *minor = 7;
  *patch = 6;
}
