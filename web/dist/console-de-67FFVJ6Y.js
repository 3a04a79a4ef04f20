import{Ma as o,a as p,c as m}from"./chunk-SGHNC44R.js";m(p(o,null),document.getElementById("app"));
